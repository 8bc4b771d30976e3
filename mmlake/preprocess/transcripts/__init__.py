"""What is said and when: subtitles of files (`subtitles`, `timed_files`, `embedded_subtitles`), recognizers
(`recognition`, `pieces`, `whisper`), and transcripts laid on their sound (`align`, `alignments`, `drift`).
"""
