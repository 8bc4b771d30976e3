"""Files of one stem are one sample: members of archives and files of directories."""
