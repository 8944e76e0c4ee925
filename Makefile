# `make demo` and `make test` install what they need; run again, they install nothing twice.
# Processes that run tests; each takes up to 2.5 GB.
PROCESSES ?= 3

.PHONY: install install-gpu demo test lint protos bench

install:
	@.ci/install cpu

install-gpu:
	@.ci/install gpu

demo: install
	@.venv/bin/inferdeck demo

test:
	@.ci/install cpu dev
	@.venv/bin/python -m pytest --numprocesses $(PROCESSES) --dist loadgroup --no-loadscope-reorder

lint:
	@.ci/install cpu dev
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports

protos:
	@.ci/install cpu dev
	@.venv/bin/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. --grpc_python_out=. control_plane/contracts/v1/worker.proto control_plane/contracts/v1/routing.proto control_plane/contracts/v1/decision.proto control_plane/contracts/v1/router.proto control_plane/contracts/v1/operator.proto control_plane/contracts/v1/access.proto control_plane/contracts/v1/history.proto

bench:
	@.ci/install cpu dev
	@.venv/bin/python -m tests.bench
