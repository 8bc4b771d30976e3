"""Mail and saved pages have the words of their subjects and bodies; addresses, routes and attachments are none."""

from __future__ import annotations

import base64
from email.message import EmailMessage

import pytest

from mmlake.preprocess.mail import is_mail, mail_text
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.text import text_track

PLAIN = "The ferry to the island leaves at nine, and the last one comes back at seven in the evening."
HEAD = b"Return-Path: <a@b.example>\nFrom: a@b.example\nMIME-Version: 1.0\n"


def text_of(data: bytes) -> str:
    return str(text_track(data, "text/plain", settings=PreprocessSettings())["text"])


def mail(*, page: str | None = None, attached: bytes | None = None) -> bytes:
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = "ann@example.org", "ben@example.org", "Fähre um neun"
    made["Message-ID"] = "<1@example.org>"
    made.set_content(PLAIN)
    if page is not None:
        made.add_alternative(page, subtype="html")
    if attached is not None:
        made.add_attachment(attached, maintype="application", subtype="pdf", filename="fare.pdf")
        made.add_attachment("prices and nothing else", filename="fare.txt")
    return made.as_bytes()


@pytest.mark.parametrize("page", [None, f"<html><body><p>{PLAIN}</p></body></html>"])
@pytest.mark.parametrize("attached", [None, bytes(range(256)) * 40])
def test_a_mail_is_its_subject_and_its_plain_body(page, attached):
    assert text_of(mail(page=page, attached=attached)) == f"Fähre um neun\n\n{PLAIN}"


def test_a_mail_without_a_plain_body_has_the_words_of_its_page():
    data = HEAD + b"Content-Type: text/html; charset=utf-8\n\n" + f"<html><body><p>{PLAIN}</p></body></html>".encode()
    assert text_of(data) == PLAIN


def test_a_saved_page_has_its_words():
    page = base64.encodebytes(f"<html><body><p>{PLAIN}</p></body></html>".encode())
    data = (
        b"From: <Saved by Blink>\nSubject: Ferry\nMIME-Version: 1.0\nContent-Type: multipart/related; boundary=x\n\n"
        b"--x\nContent-Type: text/html\nContent-Transfer-Encoding: base64\n\n" + page + b"\n"
        b"--x\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\niVBORw0KGgo=\n--x--\n"
    )
    assert text_of(data) == f"Ferry\n\n{PLAIN}"


def test_the_bytes_decide_where_the_named_character_set_is_wrong():
    data = HEAD + "Content-Type: text/plain; charset=gb2312\n\n你好！我公司可开各类发票，点数优惠。\n".encode()
    assert text_of(data) == "你好！我公司可开各类发票，点数优惠。"
    data = HEAD + b"Content-Type: text/plain; charset=undefined\n\n" + f"{PLAIN} À Café".encode("latin-1")
    assert text_of(data).endswith("À Café")


def test_an_archive_of_mails_has_the_words_of_each():
    line = b"From ann@example.org Mon Jan  1 10:00:00 2024\n"
    both = line + mail() + b"\n" + line + mail().replace(b"leaves at nine", b"leaves at ten")
    assert text_of(both).count("Fähre um neun") == 2 and "at ten" in text_of(both)


@pytest.mark.parametrize(
    "data",
    [
        b"From: Ann\nSubject: a letter\n\nIt has no field of programs.\n",
        b"Received: yes\nwe begin here\nFrom: nobody\n\nno field is in the second line\n",
        b"Message-ID: 1\nVersion: 2\n\nwhat nobody wrote\n",
        b"From here to there at 10:00:00 in 2024\nit is far.\n",
        b"",
    ],
)
def test_other_texts_that_begin_with_fields_are_no_mail(data):
    assert not is_mail(data)
    assert text_of(data) == data.decode().strip()


@pytest.mark.parametrize(
    "opening", [b"Content-Type: message/rfc822\n\n", b"Content-Type: multipart/mixed; boundary=a\n"]
)
def test_parts_without_end_within_each_other_are_left_as_they_are(opening):
    data = HEAD + opening * 5000 + b"\n\nhello\n"
    assert mail_text(data) is None and text_of(data).startswith("Return-Path")


def test_a_subject_without_end_is_cut():
    data = HEAD + b"Subject: " + b"=?utf-8?q?word?= " * 20_000 + b"\n\nhello\n"
    assert len(text_of(data)) < 10_000 and text_of(data).endswith("hello")
