"""HTTP/1.1 on httptools, written for streams of small events: what is written goes out in the same loop turn."""
