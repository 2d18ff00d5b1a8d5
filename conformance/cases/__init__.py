"""What is sent: cases as data, and the tensors that are made of them."""
