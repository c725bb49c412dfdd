"""A local web application that shows the samples, answers and metrics of outputs. It writes nothing to them."""
