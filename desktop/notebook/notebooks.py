"""The notebooks of the window: opens, keeps and deletes them, and has the engine go on with one. Knows no widget.

What is written is saved within a second, by the model or by hand, so that the end of the process costs no more than
that. A notebook that was opened stays in memory with its undo, and the model goes on writing in it unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from desktop.chat.kept_states import KeptStates
from desktop.engine_client import EngineClient, EngineState
from desktop.in_steps import InSteps
from desktop.notebook.book import Notebook
from desktop.store.chat_store import ChatStore
from desktop.store.records import NotebookRecord, NotebookSummary
from runtime.errors import ErrorInfo, UserError
from runtime.params import SamplingParams
from runtime.protocol import Finished, FinishReason, GenerationRequest
from runtime.text import _

SAVE_MS = 500


class NotebookGone(UserError):
    """A notebook was opened that is not there any more."""

    code = "notebook_gone"

    def __init__(self) -> None:
        super().__init__(_("This notebook is no longer there."), "", _("Choose another one, or begin a new one."))


class Notebooks(QObject):
    """Every notebook that was opened, the one that is shown, and what the model writes."""

    shown = Signal(object)  # Notebook, with all of its text
    listed = Signal(object)  # tuple[NotebookSummary, ...]
    busy_changed = Signal(bool)  # whether the model writes in the notebook that is shown, or is about to
    about_to_write = Signal()  # the text that is shown is about to grow
    wrote = Signal()  # the text that is shown has grown
    ended = Signal(object)  # protocol.Finished of the notebook that is shown
    said = Signal(str)  # a sentence for the person
    problem = Signal(object)  # ErrorInfo

    def __init__(
        self, store: ChatStore, engine: EngineClient, *, sampling: Callable[[], SamplingParams],
        states: KeptStates | None = None, parent: QObject | None = None,
    ) -> None:  # fmt: skip
        """`sampling` is asked before each piece of writing; `states` keeps what the model has read of each text."""
        super().__init__(parent)
        self._store, self._engine, self._sampling, self._states = store, engine, sampling, states
        self._books: dict[str, Notebook] = {}
        self._current = self._watched(Notebook(parent=self))
        self._running: dict[int, Notebook] = {}
        self._wanted = ""  # the id of the notebook that was asked for last
        self._was_busy = self._opened = False
        self._unsaved: dict[str, Notebook] = {}
        self._save_later = QTimer(self, singleShot=True, interval=SAVE_MS)
        self._save_later.timeout.connect(self.save)
        engine.began.connect(self._on_began)
        engine.text.connect(self._on_text)
        engine.finished.connect(self._on_finished)
        engine.failed.connect(self._on_failed)

    # --- what is shown ---------------------------------------------------------------------------------------------

    @property
    def current(self) -> Notebook:
        """The notebook that is shown."""
        return self._current

    @property
    def busy(self) -> bool:
        """Whether the model writes in the notebook that is shown, or is about to."""
        return self._current in self._running.values()

    def open_latest(self) -> None:
        """Shows the notebook that was written in last, when notebooks are first looked at."""
        if not self._opened:
            self._opened = True
            self._store.list_notebooks(self._open_first)

    def _open_first(self, found: list[NotebookSummary] | None) -> None:
        if found and not self._wanted and not self._current.length:
            self.open(found[0].id)
        self.refresh()

    def open(self, id: str) -> None:
        """Shows a notebook."""
        self._opened, self._wanted = True, id
        if id == self._current.id:
            return
        if id in self._books and self._books[id].ready:
            self._show(self._books[id])
        else:
            self.save()
            self._store.load_notebook(id, lambda found: self._loaded(id, found))

    def new(self) -> None:
        """Shows an empty notebook; it is stored with its first word."""
        self._opened = True
        if self._current.length or self._current.stored:
            self._wanted = ""
            self._show(self._watched(Notebook(parent=self)))

    def _loaded(self, id: str, found: NotebookRecord | None) -> None:
        if found is None:
            self.problem.emit(NotebookGone().info)
            self.refresh()
        elif id == self._wanted and id not in self._books:
            book = self._watched(Notebook(found, self))
            InSteps(self._filling(book), self)

    def _filling(self, book: Notebook) -> Iterator[None]:
        yield from book.fill()
        if book.id == self._wanted:
            self._show(book)

    def _watched(self, book: Notebook) -> Notebook:
        self._books[book.id] = book
        book.edited.connect(lambda: self._note_edit(book))
        book.title_changed.connect(lambda: self._note_edit(book))
        return book

    def _show(self, book: Notebook) -> None:
        self._leave()
        self._current = book
        self.shown.emit(book)
        self._show_busy()
        self.refresh()

    def _leave(self) -> None:
        self.rest()
        if not self._current.length and not self._current.stored:
            self._books.pop(self._current.id, None)

    def refresh(self) -> None:
        """Reads the list of notebooks from the store."""
        self._store.list_notebooks(lambda found: self.listed.emit(tuple(found or ())))

    # --- keeping ---------------------------------------------------------------------------------------------------

    def _note_edit(self, book: Notebook) -> None:
        if book.stored or book.length:
            book.stored = True
            self._unsaved[book.id] = book
            if not self._save_later.isActive():
                self._save_later.start()

    def save(self) -> None:
        """Stores what has changed; to be called before the store is closed, too."""
        self._save_later.stop()
        unsaved, self._unsaved = self._unsaved, {}
        for book in unsaved.values():
            self._store.save_notebook(book.record)
        if unsaved:
            self.refresh()

    def rest(self) -> None:
        """Another page is turned to: stores what has changed, and what the model has read of the text."""
        self.save()
        if self._states is not None:
            self._states.left(self._current.id)

    def delete(self) -> str:
        """Takes the notebook that is shown out of the list and returns its id, for `restore`."""
        book = self._current
        self.stop()
        if self._states is not None:
            self._states.forget(book.id)  # first: a notebook that is left is saved
        self._leave()
        self._books.pop(book.id, None)
        self._store.delete_notebook(book.id)
        self._wanted = ""
        self._current = self._watched(Notebook(parent=self))
        self.shown.emit(self._current)
        self._show_busy()
        self._store.list_notebooks(self._open_first)
        return book.id

    def restore(self, id: str) -> None:
        """Undoes `delete` and shows the notebook again."""
        self._store.restore_notebook(id)
        self.open(id)

    def rename(self, name: str) -> None:
        """Gives the notebook that is shown a name."""
        self._current.rename(" ".join(name.split()))

    # --- writing ---------------------------------------------------------------------------------------------------

    def generate(self, position: int) -> None:
        """Has the model go on at a position of the text that is shown."""
        if not self.busy and self._current.ready:
            self._ask(self._current, position)

    def again(self) -> None:
        """Has the model write something else in place of what it wrote last."""
        start, end = self._current.mark
        if not self.busy and start < end:
            self._ask(self._current, start, again=True)

    def take_back(self) -> None:
        """Takes out what the model wrote last."""
        if not self.busy:
            self._current.take_back()

    def stop(self) -> None:
        """Ends the writing in the notebook that is shown; what is written stays."""
        for id, book in list(self._running.items()):
            if book is self._current:
                self._engine.stop(id)

    def close(self) -> None:
        """Stores everything as it stands."""
        self.save()

    def start_over(self) -> None:
        """Ends all writing where it is and shows an empty notebook: all of them are about to be replaced."""
        self.save()
        running, self._running = self._running, {}
        for id, book in running.items():
            self._engine.stop(id)
            book.finish()
        self._books, self._wanted, self._opened = {}, "", False
        self._current = self._watched(Notebook(parent=self))
        self.shown.emit(self._current)
        self._show_busy()

    def _ask(self, book: Notebook, position: int, *, again: bool = False) -> None:
        sampling = self._sampling()
        prompt = book.text_before(position)
        book.begin(position, again=again)
        if self._states is not None:
            self._states.leave_held(besides=book.id)
            self._states.before_answer(book.id)
        request = GenerationRequest(prompt=prompt, only_end=sampling.context_policy != "stop", sampling=sampling)
        waits = self._engine.state is EngineState.GENERATING
        self._running[self._engine.generate(request)] = book
        self._show_busy()
        if waits:
            self.said.emit(_("This begins when the answer in a chat is written."))

    @Slot(int)
    def _on_began(self, id: int) -> None:
        if self._running.get(id) is self._current:
            self.said.emit("")

    @Slot(int, str, int)
    def _on_text(self, id: int, text: str, _n_tokens: int) -> None:
        book = self._running.get(id)
        if book is not None and book is self._current:
            self.about_to_write.emit()
            book.write(text)
            self.wrote.emit()
        elif book is not None:
            book.write(text)

    @Slot(int, object)
    def _on_finished(self, id: int, finished: Finished) -> None:
        book = self._running.pop(id, None)
        if book is None:
            return
        self._end(book)
        if self._states is not None:
            self._states.answered(book.id, finished.usage.context_used)
        if book is self._current:
            self.ended.emit(finished)
            if words := _ending(finished):
                self.said.emit(words)

    @Slot(int, object)
    def _on_failed(self, id: int, error: ErrorInfo) -> None:
        book = self._running.pop(id, None)
        if book is not None:
            self._end(book)
            self.problem.emit(error)

    def _end(self, book: Notebook) -> None:
        book.finish()
        self.save()
        self._show_busy()

    def _show_busy(self) -> None:
        if self.busy != self._was_busy:
            self._was_busy = self.busy
            self.busy_changed.emit(self.busy)


def _ending(finished: Finished) -> str:
    """Returns what there is to say of an end, where that is not plain to see."""
    if finished.notes:
        return finished.notes[0]
    if not finished.usage.generated_tokens and finished.reason is FinishReason.END:
        return _("The model sees the end of the text here. Write a few more words, or try again.")
    if finished.reason is FinishReason.CONTEXT:
        return _("The context is full. To go on from the end of the text, press Continue again.")
    return ""
