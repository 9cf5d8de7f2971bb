"""What an operator asks: what happened to a message, what needs a person, and how it was before."""
