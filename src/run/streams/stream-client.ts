/** A client, however it is connected. */
export interface StreamClient {
  /** `taken` is called when the frame has left for the client; never after it is gone. */
  send(frame: Uint8Array, taken: () => void): void;
  /** Sends nothing more until {@link resume}: the guest is behind. */
  pause(): void;
  resume(): void;
  /** Ends it; `problem` says what it did wrong, null: nothing. */
  close(problem: string | null): void;
}

/** What a client says. */
export interface ClientSession {
  receive(frame: Uint8Array): void;
  /** It sends nothing more, and may still listen. */
  ended(): void;
  gone(): void;
}

/** The guest's side, as a client finds it. */
export interface StreamEnd {
  /** Whether there is no place for a client: there is one already, or the guest has ended. */
  readonly isTaken: boolean;
  /** Whether the guest has ended, or was given up: there will be no place here any more. */
  readonly isOver: boolean;
  /** Null: {@link isTaken}. */
  connect(client: StreamClient): ClientSession | null;
}
