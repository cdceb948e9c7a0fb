"""What fills the context: the measures of a conversation, and the panel that shows them."""
