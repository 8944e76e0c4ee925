"""What one call recalls of what was said before, and the turn that is kept of it."""

from __future__ import annotations

from collections.abc import Callable

from control_plane.contracts.conversation import Item, Turn, TurnStatus
from control_plane.contracts.errors import InferDeckError, NotFound
from control_plane.gateway.answer.sink import CLIENT_LEFT
from control_plane.gateway.history.history import History
from control_plane.gateway.history.kept_turn import KeptTurn
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.schema.generation import Generation

Then = Callable[[InferDeckError | None], None]
"""Hears why it cannot be, or None: go on. Nothing is heard once the call has ended."""


class CallMemory:
    """Of a call that continues nothing and is not kept there is nothing to remember. ``api`` is what its API is called;
    ``turn`` is there from when its messages are stored."""

    __slots__ = ("_api", "_exchange", "_generation", "_history", "_over", "_recalled", "turn")

    def __init__(self, history: History | None, exchange: Exchange, generation: Generation, api: str) -> None:
        self._history = history
        self._exchange = exchange
        self._generation = generation
        self._api = api
        self._over = self._recalled = False
        self.turn: KeptTurn | None = None

    def recall(self, then: Then) -> None:
        """Put what was said before in front of what was sent."""
        thread, history = self._generation.thread, self._history
        if thread is None or history is None or not thread.continues or self._recalled:
            then(None)
            return

        def recalled(items: list[Item] | InferDeckError) -> None:
            if self._over:
                return
            if isinstance(items, InferDeckError):
                if isinstance(items, NotFound):
                    items.param = "conversation"
                then(items)
                return
            said = [{"role": item.role, "content": item.text} for item in items]
            self._generation.messages = said + self._generation.messages
            self._recalled = True
            then(None)

        history.recall(self._exchange.grant.tenant, thread.conversation_id, thread.previous_id, recalled)

    def begin(self, then: Then) -> None:
        """Store the messages of a call that is kept, and only then go on."""
        thread, history, exchange = self._generation.thread, self._history, self._exchange
        if thread is None or history is None or not thread.kept or self.turn is not None:
            then(None)
            return

        def begun(turn: KeptTurn | InferDeckError) -> None:
            if isinstance(turn, InferDeckError):
                if not self._over:
                    then(turn)
            elif not self._over:
                self.turn = turn
                then(None)
            elif exchange.refused is not None:
                turn.withdraw()
            else:
                turn.end(TurnStatus.CANCELLED, CLIENT_LEFT)

        turn = Turn(
            id=thread.turn_id,
            tenant=exchange.grant.tenant,
            api=self._api,
            model=self._generation.model,
            owner=history.owner,
            answer_id=thread.answer_id,
            created_unix=exchange.arrival_unix,
            messages=thread.messages,
            conversation_id=thread.conversation_id,
            previous_id=thread.previous_id,
            settings=thread.settings,
        )
        history.begin(turn, begun)

    def answered_by(self, model: str) -> None:
        """It is another model than the one that it began with."""
        if self.turn is not None:
            self.turn.model = model

    def left(self) -> None:
        """The client has left a call whose messages are stored and that has no answer yet."""
        turn, self.turn = self.turn, None
        if turn is not None:
            turn.end(TurnStatus.CANCELLED, CLIENT_LEFT)

    def withdraw(self, then: Callable[[], None]) -> None:
        """The caller hears that nothing was done, so nothing is kept; ``then`` tells it."""
        turn, self.turn = self.turn, None
        if turn is None:
            then()
        else:
            turn.withdraw(then)

    def close(self) -> None:
        """The call has ended: a turn that begins after that is ended at once."""
        self._over = True
