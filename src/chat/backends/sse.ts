/** Takes server-sent events apart: bytes in any portions go in, the data of whole events comes out. */
export class SseDecoder {
  readonly #utf8 = new TextDecoder();
  #unfinishedLine = '';
  #endedInCarriageReturn = false;
  #data: string[] = [];

  /** The data of the events that these bytes finish. */
  push(bytes: Uint8Array): string[] {
    let text = this.#utf8.decode(bytes, { stream: true });
    if (text === '') return [];
    // A carriage return at the end of a portion has ended its line already: the line feed after it is no second line.
    if (this.#endedInCarriageReturn && text.startsWith('\n')) text = text.slice(1);
    this.#endedInCarriageReturn = text.endsWith('\r');

    const lines = text.split(/\r\n|\n|\r/);
    lines[0] = this.#unfinishedLine + (lines[0] ?? '');
    this.#unfinishedLine = lines.pop() ?? '';
    const events: string[] = [];
    for (const line of lines) {
      if (line === '') this.#dispatch(events);
      else this.#take(line);
    }
    return events;
  }

  /** What came after the last blank line: an event that lacks only its end, or one that was cut off. */
  end(): string | undefined {
    const line = this.#unfinishedLine + this.#utf8.decode();
    this.#unfinishedLine = '';
    if (line !== '') this.#take(line);
    const events: string[] = [];
    this.#dispatch(events);
    return events[0];
  }

  #dispatch(events: string[]): void {
    if (this.#data.length > 0) events.push(this.#data.join('\n'));
    this.#data = [];
  }

  // Comments and the fields event, id and retry carry nothing that a completion needs.
  #take(line: string): void {
    if (line === 'data') this.#data.push('');
    else if (line.startsWith('data:')) this.#data.push(line.slice(line[5] === ' ' ? 6 : 5));
  }
}
