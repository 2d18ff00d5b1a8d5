"""The first test module of a repository, written for the attention that its source shows.

layout      which folder is searched, what its files are called in an import, where its tests stand
scan        the Python files that may hold attention, read and never executed
arguments   the arguments of a definition, each with what its name says it holds
recognise   functions and modules that are attention by their arguments; what was near, with its reason
write       the test module
"""
