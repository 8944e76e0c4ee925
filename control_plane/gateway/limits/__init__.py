"""Requests and tokens over a rolling minute, and calls at one time: for each key, and for each tenant."""
