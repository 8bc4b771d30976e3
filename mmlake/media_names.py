"""The extensions that files of images, sound and films have: for listings that know names alone, and for tars."""

from __future__ import annotations

BY_MODALITY = {
    "image": "jpg jpeg jpe png gif webp tif tiff bmp avif heic heif jp2 jxl ppm pgm pnm pbm pam pfm tga ico dds sgi "
    "pcx j2k qoi icns fits xbm xpm",
    "audio": "wav wave flac mp3 ogg oga opus m4a m4b aac amr aif aiff au mka weba wma ac3 eac3",
    "video": "mp4 m4v mov mkv webm avi ts m2ts mts mpg mpeg vob flv wmv ogv 3gp asf",
}
ENDINGS = {  # content type -> ending of such members in the tars that are written
    "image/jpeg": "jpg", "image/png": "png", "image/webp": "webp", "image/gif": "gif", "image/tiff": "tiff",
    "image/bmp": "bmp", "image/avif": "avif", "image/heic": "heic", "image/jp2": "jp2", "image/j2c": "j2k",
    "image/jxl": "jxl", "image/x-portable-pixmap": "ppm", "image/x-portable-graymap": "pgm",
    "image/x-portable-anymap": "pnm", "image/x-portable-bitmap": "pbm", "image/x-portable-arbitrarymap": "pam",
    "image/x-portable-floatmap": "pfm", "image/x-tga": "tga", "image/vnd.microsoft.icon": "ico",
    "image/vnd-ms.dds": "dds", "image/sgi": "sgi", "image/vnd.zbrush.pcx": "pcx", "image/qoi": "qoi",
    "image/icns": "icns", "image/fits": "fits", "image/vnd.adobe.photoshop": "psd",
    "image/x-xbitmap": "xbm", "image/x-xpixmap": "xpm",
    "video/mp4": "mp4", "video/webm": "webm", "video/x-matroska": "mkv", "video/quicktime": "mov",
    "video/x-msvideo": "avi", "video/mp2t": "ts", "video/mpeg": "mpg", "video/x-flv": "flv", "video/ogg": "ogv",
    "video/3gpp": "3gp", "video/x-ms-asf": "asf", "video/x-ms-wmv": "wmv",
    "audio/flac": "flac", "audio/x-flac": "flac", "audio/mpeg": "mp3", "audio/wav": "wav", "audio/x-wav": "wav",
    "audio/ogg": "ogg", "audio/mp4": "m4a", "audio/aac": "aac", "audio/aiff": "aif", "audio/basic": "au",
    "audio/x-caf": "caf", "audio/x-nist": "sph", "audio/amr": "amr", "audio/webm": "weba", "audio/x-matroska": "mka",
    "audio/x-ms-wma": "wma", "audio/ac3": "ac3", "audio/eac3": "eac3", "audio/x-w64": "w64",
    # of films the same without "audio."
    "audio/x-flv": "audio.flv", "audio/mp2t": "audio.ts",
}  # fmt: skip


def endings_of(family: str) -> list[str]:
    """The endings of a family of content types ("image", "audio" or "video"), each once."""
    return list(dict.fromkeys(ending for name, ending in ENDINGS.items() if name.startswith(f"{family}/")))


MEDIA_NAMES = frozenset(extension for extensions in BY_MODALITY.values() for extension in extensions.split())


def is_media_name(name: str) -> bool:
    """Whether a file of that name is a picture, a film or a recording by its extension."""
    return name.rpartition(".")[2].lower() in MEDIA_NAMES


COMPANION_NAMES = frozenset(["txt", "caption", "transcript", "srt", "vtt"])  # of texts that describe a medium
# of texts that say what is seen, by the scripts that train on them; next to sound or a film, where a plain text is said
CAPTION_NAMES = frozenset(["caption", "captions", "cap", "tags", "wd14cap"])
PROGRAM_NAMES = frozenset(  # of texts that make what has their name, as scripts of plots do, and say nothing about it
    "py pyi ipynb js jsx mjs cjs tsx c h cc cpp cxx hpp cu java kt scala cs go rs rb pl pm php lua r jl m f90 hs swift "
    "sh bash bat ps1 sql css scss less vue asm s vhd v tcl glsl frag vert csd orc sco scad gp plt dot gv mmd puml "
    "asy ly po toml ini cfg cmake dem".split()
)
