"""One channel index in conda's own index cache: what conda would request, and how an answer is stored.

Uses conda's ``SubdirData``, ``RepodataFetch`` and ``RepodataCache`` (24.7 to 26.7). conda's lock is held while its
files are renamed, never during a download. A validator is stored only for the form that this conda will request next,
because conda keeps one validator for all forms.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conda.base.constants import REPODATA_FN
from conda.core.subdir_data import SubdirData
from conda.gateways.repodata import CACHE_CONTROL_KEY, ETAG_KEY, LAST_MODIFIED_KEY, URL_KEY
from conda.models.channel import Channel

from resume_dl.conda_plugin.index_hold import is_stored, load_state, note_stored, preserve

if TYPE_CHECKING:  # no other module of ours is loaded if every index is fresh
    from resume_dl.model.http import CacheHeaders
    from resume_dl.model.url import RedactedUrl

SHARDS_FN = "repodata_shards.msgpack.zst"
"""The index of a channel's shards (CEP-16)."""
_SHARDS, _ZST = "shards", "zst"
_CHUNK = 1 << 20


class CondaIndex:
    """``indexes.client_channels.ClientIndex`` for conda; ``url`` is ``<channel>/<subdir>`` with conda's login.

    ``sharded``: whether the solver requests the shard index before the whole index.
    """

    def __init__(self, url: str, repodata_fn: str, *, sharded: bool = False, lacks_shards: bool = False) -> None:
        self._url = url
        self._fn = repodata_fn
        self._sharded = sharded
        self._data = SubdirData(Channel(url), repodata_fn=repodata_fn)
        self._fetch = self._data.repo_fetch
        self._began = time.time_ns()
        self._refused = {_SHARDS: lacks_shards, _ZST: False}

    @property
    def channel(self) -> str:
        """The channel's name, for display."""
        from resume_dl.model.url import redact

        return redact(str(self._data.channel.canonical_name))

    @property
    def subdir(self) -> str:
        """The platform, or noarch."""
        return str(self._data.channel.subdir)

    @property
    def filename(self) -> str:
        """The name of the whole file that conda reads: ``repodata.json`` or ``current_repodata.json``."""
        return self._fn

    @property
    def base(self) -> RedactedUrl:
        """The URL below which conda requests the files of this index, including the login."""
        from resume_dl.model.url import RedactedUrl

        return RedactedUrl(self._fetch.url_w_credentials)

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the index."""
        return self._url, self._fn

    def is_fresh(self) -> bool:
        """Whether conda will send no request, by its own rule or because it has already read the index."""
        if getattr(self._data, "_loaded", False) and not self._sharded:
            return True
        cache = self._fetch.repo_cache
        if self._wants_shards():
            self._load(cache)
            return bool(cache.cache_path_shards.exists() and not cache.stale())
        state = cache.load_state()
        if cache.cache_path_json.exists():
            return not cache.stale()
        # If a channel has no current_repodata.json, conda requests it each time, gets a 404 and uses the whole index.
        other = self._whole() if self._fn != REPODATA_FN and not state else None
        return other is not None and other.is_cached() and other.is_fresh()

    def is_cached(self) -> bool:
        """Whether conda has a copy of the whole file, fresh or not."""
        return bool(self._fetch.repo_cache.cache_path_json.exists())

    def is_settled(self) -> bool:
        """Whether another process has refreshed it since this object was made."""
        cache = self._fetch.repo_cache
        self._load(cache)
        path = cache.cache_path_shards if self._wants_shards() else cache.cache_path_json
        # without these it may be a temporary copy from a mirror
        from_server = cache.state.etag or cache.state.mod or cache.state.cache_control
        settled = bool(from_server and path.exists() and cache.state.get("refresh_ns", 0) > self._began)
        if settled:
            note_stored(cache, sharded=self._sharded)
        return settled

    def has_shards(self) -> bool:
        """Whether conda has a shard index, which it will read or refresh."""
        return self._wants_shards() and bool(self._fetch.repo_cache.cache_path_shards.exists())

    def shard_index(self) -> bytes | None:
        """The shard index that conda will read without a request, because it is fresh or was just fetched.

        It then counts as fresh until the solve has read it, because its shards may take a while.
        """
        from resume_dl import fs
        from resume_dl.indexes.shards.index import LARGEST_INDEX

        cache = self._fetch.repo_cache
        self._load(cache)  # conda makes a new cache object each time
        if not self.has_shards() or (cache.stale() and not is_stored(cache)):
            return None
        try:
            data = fs.read_regular(cache.cache_path_shards, LARGEST_INDEX)
        except OSError:
            return None
        note_stored(cache, sharded=True)
        return data

    def forms(self) -> Sequence[str]:
        """The files that conda will try, in its order; empty if its repodata interface is not known here."""
        if self._wants_shards():
            return (SHARDS_FN,)
        interface = self._fetch.repo_interface_cls.__name__
        if interface == "CondaRepoInterface":
            return (self._fn,)
        if interface != "ZstdRepoInterface":
            return ()  # JLAP: only conda can apply its patches
        if self._fetch.repo_cache.load_state().should_check_format(_ZST):
            return (f"{self._fn}.zst", self._fn)
        return (self._fn,)

    def validator(self) -> str | None:
        """The validator of the cached copy; None if there is no copy or it has no validator."""
        cache = self._fetch.repo_cache
        if self._wants_shards():
            self._load(cache)
            if not cache.cache_path_shards.exists():
                return None
        elif not cache.cache_path_json.exists():
            return None
        else:
            cache.load_state()
        return str(cache.state.etag or cache.state.mod) or None

    def take(self, form: str, path: Path, said: CacheHeaders, largest: int | None) -> None:
        """Store ``path``, a file as it was served, in the cache. Raises IntegrityError, OSError and CondaError."""
        from resume_dl.resolve.repodata import LARGEST, unpack_zst
        from resume_dl.store.platform import sync_file

        cache = self._fetch.repo_cache
        self._load(cache)
        state = cache.state
        temporary = _temporary(cache)
        if form == SHARDS_FN:
            state.set_has_format(_SHARDS, True)
            self._describe(state, said)
            try:
                shutil.copyfile(path, temporary)
                sync_file(temporary)  # conda's own save() does not sync, and conda would not detect a torn file
                cache.replace(temporary, cache.cache_path_shards)
            finally:
                temporary.unlink(missing_ok=True)
            note_stored(cache, sharded=True)
            return
        try:
            if form.endswith(".zst"):
                unpack_zst(path, temporary, largest=LARGEST if largest is None else largest)
                state.clear_has_format(_ZST)
            else:
                shutil.copyfile(path, temporary)
            _check_object(temporary, form)
            sync_file(temporary)
            self._describe(state, said)
            state.update(_content_digests(temporary))
            cache.replace(temporary)
        finally:
            temporary.unlink(missing_ok=True)
        note_stored(cache, sharded=self._sharded)

    def take_from_mirrors(self, path: Path) -> None:
        """Store ``path``, an index from mirrors, in the cache for this command only. Raises as ``take`` does.

        It has no validator, so conda requests the whole file from its server the next time; ``index_hold`` restores
        the previous copy. A solver that reads shards uses it like any whole index.
        """
        from resume_dl.store.platform import sync_file

        cache = self._fetch.repo_cache
        self._load(cache)
        before = preserve(cache)
        temporary = _temporary(cache)
        try:
            shutil.copyfile(path, temporary)
            _check_object(temporary, self._fn)
            sync_file(temporary)
            self._describe(cache.state, None)
            if self._sharded or self._refused[_SHARDS]:
                cache.state.set_has_format(_SHARDS, False)
            cache.state.update(_content_digests(temporary))
            cache.replace(temporary)
        finally:
            temporary.unlink(missing_ok=True)
        note_stored(cache, sharded=self._sharded, before=before)

    def keep(self) -> None:
        """Record that the server reports the cached copy as unchanged."""
        cache = self._fetch.repo_cache
        if self._wants_shards():
            self._load(cache)
            cache.refresh()
            note_stored(cache, sharded=True)
            return
        state = cache.load_state()
        digests = _content_digests(cache.cache_path_json) if _nominal_key() not in state else {}
        state.update(digests)
        self._note_formats(state)
        cache.refresh()
        note_stored(cache, sharded=self._sharded)

    def lacks(self, form: str) -> None:
        """Note a form that the server lacks; the note is written together with a form that it has."""
        if form == SHARDS_FN:
            self._refused[_SHARDS] = True
        elif form.endswith(".zst"):
            self._refused[_ZST] = True

    def instead(self) -> CondaIndex | None:
        """The index that conda requests next if the server lacks every form of this one."""
        other = self._whole() if self._refused[_SHARDS] or self._fn != REPODATA_FN else None
        return None if other is None or other.is_fresh() else other

    def _whole(self) -> CondaIndex:
        return CondaIndex(self._url, REPODATA_FN, lacks_shards=self._refused[_SHARDS])

    def _wants_shards(self) -> bool:
        if not self._sharded:
            return False
        cache = self._fetch.repo_cache
        self._load(cache)
        return bool(cache.state.should_check_format(_SHARDS))

    def _load(self, cache: Any) -> None:
        load_state(cache, sharded=self._sharded)

    def _describe(self, state: Any, said: CacheHeaders | None) -> None:
        """Set what conda notes of an answer, with a URL without a login; None if its server has not answered."""
        state.pop("jlap", None)
        state[URL_KEY] = self._fetch.url_w_subdir
        state[ETAG_KEY] = "" if said is None else said.etag
        state[LAST_MODIFIED_KEY] = "" if said is None else said.last_modified
        max_age = None if said is None else said.max_age
        state[CACHE_CONTROL_KEY] = "" if max_age is None else f"max-age={int(max_age)}"
        if said is not None:
            self._note_formats(state)

    def _note_formats(self, state: Any) -> None:
        for name, refused in self._refused.items():
            if refused:
                state.set_has_format(name, False)


def _temporary(cache: Any) -> Path:
    """A path beside the target, for conda's rename. The file gets the mode that the umask gives, for shared caches."""
    temporary: Path = cache.cache_dir / f"{cache.name}.{os.urandom(4).hex()}.tmp"
    return temporary


def _check_object(path: Path, form: str) -> None:
    """Refuse what is not a JSON object: conda would store it and fail on it until its cache is cleaned."""
    with path.open("rb") as file:
        first = file.read(1024).lstrip()[:1]
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1024))
        last = file.read().rstrip()[-1:]
    from resume_dl.errors import IntegrityError

    if first != b"{" or last != b"}":
        raise IntegrityError(f"{form} is not a JSON object", hint="ask the channel's owner")


def _nominal_key() -> str:
    """The key of the JSON's digest in conda's state; empty if this conda keeps no digest (26)."""
    try:
        from conda.gateways.repodata.jlap.fetch import NOMINAL_HASH
    except ImportError:
        return ""
    return str(NOMINAL_HASH)


def _content_digests(path: Path) -> dict[str, str]:
    """The digests (BLAKE2b, 32 bytes) without which conda before 26 would not send the ETag of a JSON."""
    if not _nominal_key():
        return {}
    from conda.gateways.repodata.jlap.fetch import NOMINAL_HASH, ON_DISK_HASH

    digest = blake2b(digest_size=32)
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
    return {NOMINAL_HASH: digest.hexdigest(), ON_DISK_HASH: digest.hexdigest()}
