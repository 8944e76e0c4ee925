"""From values to coloured text: pure, and the only way by which text reaches the terminal."""
