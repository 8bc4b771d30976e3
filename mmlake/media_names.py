"""The extensions that files of images, sound and films have, for listings that know names alone."""

from __future__ import annotations

BY_MODALITY = {
    "image": "jpg jpeg jpe png gif webp tif tiff bmp avif heic heif jp2 jxl ppm pgm pnm pbm pam pfm tga ico dds sgi "
    "pcx j2k qoi icns fits",
    "audio": "wav wave flac mp3 ogg oga opus m4a m4b aac amr aif aiff au mka weba wma ac3 eac3",
    "video": "mp4 m4v mov mkv webm avi ts m2ts mts mpg mpeg vob flv wmv ogv 3gp asf",
}
MEDIA_NAMES = frozenset(extension for extensions in BY_MODALITY.values() for extension in extensions.split())
COMPANION_NAMES = frozenset(["txt", "caption", "transcript", "srt", "vtt"])  # of texts that describe a medium
