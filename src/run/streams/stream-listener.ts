import type { StreamEnd } from './stream-client.ts';

/** Where clients of user streams come from. It serves one run after the other. */
export interface StreamListener {
  /** What a client connects to, its token included; null where there is nothing to connect to. */
  readonly address: string | null;
  /** From now on clients are this guest's; they may have come before. */
  attach(hub: StreamEnd): void;
  close(): Promise<void>;
}
