import type { McpServerRecord } from './record.ts';

/**
 * One step of a registry from `prevRevision` to `revision`. Revisions may skip numbers, so only `prevRevision` tells a
 * reader whether it missed something. Several changes may travel as one event; then each id appears once.
 */
export interface RegistryEvent {
  /** Random id of the store; another value means that revisions cannot be compared. */
  readonly epoch: string;
  readonly revision: number;
  readonly prevRevision: number;
  readonly upserts: readonly McpServerRecord[];
  readonly deletes: readonly string[];
}

/** The whole registry at one revision, ordered by server_id. */
export interface RegistryListing {
  readonly epoch: string;
  readonly revision: number;
  readonly servers: readonly McpServerRecord[];
}
