"""Jobs: one question about many pictures, answered by a program that labels have chosen."""
