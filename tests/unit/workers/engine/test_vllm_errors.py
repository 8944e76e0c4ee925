import pytest

from control_plane.contracts.errors import DropReason, InvalidRequest, Unavailable
from workers.engine.vllm_errors import argument_problem, failure_in_core, refusal, start_failure


class Validation(Exception):
    """As vLLM's: ``str`` shows the value, which may be a prompt."""

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter

    def __str__(self) -> str:
        return f"{self.args[0]} (value=the whole prompt)"


class Overflow(Exception):
    http_status = 503


def test_a_bad_value_is_the_callers_fault_and_the_value_is_not_repeated() -> None:
    found = refusal(Validation("top_p must be in (0, 1]", "top_p"))
    assert isinstance(found, InvalidRequest)
    assert (found.message, found.param) == ("top_p must be in (0, 1]", "top_p")


def test_too_long_is_told_apart() -> None:
    found = refusal(Validation("The decoder prompt (length 9) is longer than the maximum model length of 8."))
    assert found is not None
    assert (found.reason, found.param) == (DropReason.CONTEXT_LENGTH_EXCEEDED, "prompt")


def test_plain_value_errors_count_too() -> None:
    assert isinstance(refusal(ValueError("bad regex")), InvalidRequest)
    assert isinstance(refusal(OverflowError()), InvalidRequest)


def test_a_full_queue_passes() -> None:
    found = refusal(Overflow("queue is full"))
    assert isinstance(found, Unavailable)
    assert found.reason is DropReason.OVERLOADED


def test_what_is_not_the_calls_fault_is_not_blamed_on_it() -> None:
    assert refusal(RuntimeError("boom")) is None
    assert refusal(KeyError("boom")) is None


@pytest.mark.parametrize(
    ("reason", "way_out"),
    [
        ("ValueError: To serve at least one request with the models's max seq len", "raise the pool's kv_memory"),
        ("ValueError: No available memory for the cache blocks.", "raise the pool's kv_memory"),
        ("ValueError: Available memory on node 0 is less than requested", "lower the pool's kv_memory"),
        ("OutOfMemoryError: CUDA out of memory", "lower the pool's kv_memory"),
    ],
)
def test_a_start_that_failed_for_memory_names_the_setting(reason: str, way_out: str) -> None:
    text = start_failure(reason)
    assert reason in text
    assert way_out in text


def test_any_other_failure_is_passed_on() -> None:
    assert start_failure("KeyError: 'x'") == "vLLM could not start: KeyError: 'x'"


def test_a_failed_validation_is_cut_to_what_is_wrong() -> None:
    text = (
        "1 validation error for SchedulerConfig\nmax_num_seqs\n  Input should be greater than or equal to 1 "
        "[type=greater_than_equal, input_value=-1, input_type=int]\n    For further information visit https://…"
    )
    assert argument_problem(ValueError(text)) == "max_num_seqs: Input should be greater than or equal to 1"
    value = "1 validation error for ModelConfig\n  Value error, Model architectures ['X'] are not supported. [type=…]"
    assert argument_problem(ValueError(value)) == "Model architectures ['X'] are not supported."
    assert argument_problem(ValueError("one line\nand more")) == "one line"


def test_a_grammar_that_is_not_taken_is_the_response_formats_fault() -> None:
    found = refusal(Validation("Grammar error: unknown type"), structured=True)
    assert isinstance(found, InvalidRequest)
    assert found.param == "response_format"
    other = refusal(Validation("top_p must be in (0, 1]", "top_p"), structured=True)
    assert other is not None
    assert other.param == "top_p"


def test_a_grammar_that_cannot_be_followed_is_the_callers_fault_and_any_other_failure_is_not() -> None:
    found = failure_in_core(structured=True)
    assert (found.code, found.param) == (DropReason.INVALID_REQUEST, "response_format")
    assert failure_in_core(structured=False).code == DropReason.INTERNAL_ERROR
