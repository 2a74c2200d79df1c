"""One world at work: inputs become frames, frames become durable and then known."""
