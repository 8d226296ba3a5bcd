"""The user study of strategy ``seek``: questions that people answer by choosing actions."""
