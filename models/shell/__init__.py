"""What the shell says to the product and to the libraries that it uses."""
