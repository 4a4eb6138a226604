"""A stand-in for Flower with the documented signatures that sefl.flower uses."""
