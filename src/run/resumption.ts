import type { RunJournal } from '../runtime/durable/run-journal.ts';
import type { GuestMessage, HostReply } from '../runtime/port/port.ts';
import type { ChatService } from './chat-service.ts';

/** Answers again what was answered before the run was interrupted, without doing anything again. */
export class Resumption {
  readonly #journal: RunJournal;
  readonly #chat: ChatService;
  readonly #post: (call: number, reply: HostReply) => void;
  /** Calls of which the guest will hear what it had not. */
  readonly #told = new Set<number>();

  constructor(journal: RunJournal, chat: ChatService, post: (call: number, reply: HostReply) => void) {
    this.#journal = journal;
    this.#chat = chat;
    this.#post = post;
  }

  /** Whether nothing is left to do about the message. */
  take(message: GuestMessage): boolean {
    const { recorded } = this.#journal;
    const call = message[1];
    if (recorded === null || call === 0) return false;
    if (message[3] === 'cancel' || message[3] === 'tool_result') return recorded.isAnswered(call);
    // Once: a guest says more than one thing about a stream.
    const unheard = this.#told.has(call) ? [] : recorded.unheard(call);
    if (unheard.length > 0) this.#told.add(call);
    for (const reply of unheard) this.#post(call, reply);
    const last = recorded.lastReply(call);
    if (last === null) return false;
    if (message[3] === 'send' && last.send !== undefined) this.#chat.restore(message[4], message[6], last.send);
    if (message[3] === 'close_session') this.#chat.closeSession(0, message[4]);
    return true;
  }
}
