// Apart from the scheduler: these types are part of the library, and its declarations must not reach the scheduler's.

export interface GuestThreadsOptions {
  /** Threads that namespaces may have several of. @default as many as the machine has processors, and two */
  readonly threads?: number | undefined;
  /** Threads beyond these, for namespaces that have none. @default 32 */
  readonly namespaceThreads?: number | undefined;
  /** Guests on one thread at most. @default 4000 */
  readonly guestsPerThread?: number | undefined;
  /** Linear memory of all guests of a thread together; beyond it the guest that grew is ended, with the reason `lost`. @default 4 GiB */
  readonly memoryBytesPerThread?: number | undefined;
}

/** Current load of one thread. */
export interface ThreadState {
  readonly namespace: string;
  readonly guests: number;
  /** Linear memory of its guests, as last measured. */
  readonly memoryBytes: number;
}
