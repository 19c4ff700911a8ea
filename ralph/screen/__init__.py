"""What a person sees while ralph runs: the agent's stream as lines, and on a terminal a live area below them."""
