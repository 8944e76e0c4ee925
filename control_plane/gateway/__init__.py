"""The gateway: who may call, whether the call is well formed, and the answer on its way back, token by token.

::

    http/     bytes to requests and back: framing, limits, deadlines, back-pressure, disconnects
    schema/   JSON to a checked call, with OpenAI's errors
    prompt/   chat template and tokenizer, off the event loop; callers' text never becomes control tokens
    answer/   a router's deltas to OpenAI's JSON and events
    auth      API keys, from memory
    calls     one call's life between all of these
    app       routes and the order of checks
    server    the listening process: start, figures, graceful end
"""
