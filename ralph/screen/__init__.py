"""What the user sees while ralph runs: lines that stay, and on a terminal a status line below them."""
