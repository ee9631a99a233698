/** A client of user streams, over any transport. */
export interface StreamClient {
  /** Calls `taken` when the frame was sent; never after the client is gone. */
  send(frame: Uint8Array, taken: () => void): void;
  /** Stops reading from the client until {@link resume}: the guest is behind. */
  pause(): void;
  resume(): void;
  /**
   * Checks whether the client is still connected, for a host that does not read from the client and therefore does not
   * notice. If the client has left, the frames it sent before are received and its session is over when this resolves.
   * @throws Error if the signal aborts the check: the client is regarded as connected
   */
  check(signal: AbortSignal): Promise<void>;
  /** Disconnects the client; `problem`: its protocol violation, or null. */
  close(problem: string | null): void;
}

/** Events of a client. */
export interface ClientSession {
  receive(frame: Uint8Array): void;
  /** The client sends nothing more, and may still receive. */
  ended(): void;
  gone(): void;
}

/** The guest side that clients connect to. */
export interface StreamEnd {
  /** Whether no client can connect: there is one already, or the guest has ended. */
  readonly isTaken: boolean;
  /** Whether the guest has ended or is parked: no client can connect here any more. */
  readonly isOver: boolean;
  /** Removes a client that left unnoticed. Takes a second at most; call before {@link connect}. */
  evictDeparted(): Promise<void>;
  /** Null: {@link isTaken}. */
  connect(client: StreamClient): ClientSession | null;
}
