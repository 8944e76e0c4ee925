"""One screen per file. A screen paints a view of the board and hands orders to the deck."""
