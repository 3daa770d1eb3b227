"""What `placement measure` does: processes that measure, what they are asked, and what their answers are worth."""
