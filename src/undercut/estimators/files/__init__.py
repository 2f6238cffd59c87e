"""What files hold of an estimator: model files and ONNX graphs."""
