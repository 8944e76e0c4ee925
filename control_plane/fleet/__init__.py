"""The fleet: what is wanted against what is there, and everything that makes the one the other.

::

    state, actions, reconciler, health     pure: what to do next, and who is alive
    controller, link, worker, discovery    processes and their lines, one loop
    launcher/                              makes processes and finds them again
    gateways                               the gateway processes
    requests, routers, latency             what routers report
    operations, drainer                    what operators may do
    snapshots, changes, events, logs       what everybody is told
    platform                               all of it together
"""
