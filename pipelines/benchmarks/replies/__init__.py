"""What models send around their answers, removed before any benchmark or judge reads them."""
