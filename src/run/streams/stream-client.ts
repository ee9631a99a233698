/** A client, however it is connected. */
export interface StreamClient {
  /** `taken` is called when the frame has left for the client; never after it is gone. */
  send(frame: Uint8Array, taken: () => void): void;
  /** Sends nothing more until {@link resume}: the guest is behind. */
  pause(): void;
  resume(): void;
  /**
   * Checks whether the client is still connected, for a host that does not read from the client and therefore does not
   * notice. If the client has left, the frames it sent before are received and its session is over when this resolves.
   * @throws Error if the signal aborts the check: the client is regarded as connected
   */
  check(signal: AbortSignal): Promise<void>;
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
  /** Releases the place of a client that has left unnoticed. Ends after a second at most; call before {@link connect}. */
  evictDeparted(): Promise<void>;
  /** Null: {@link isTaken}. */
  connect(client: StreamClient): ClientSession | null;
}
