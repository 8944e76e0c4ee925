"""Choosing an endpoint: filters, then scorers, then a picker, bundled as a named profile. Pure: time is passed in."""
