import { PendingEntry } from './pending-entry.ts';
import { OUT } from './readiness.ts';
import { FdEntry } from './table.ts';

/** A result that did not fit the guest's buffer and waits for the same call to fetch it. */
export interface HeldResult {
  readonly tool: string;
  readonly args: string;
  readonly body: Uint8Array;
}

/** A server that the guest has opened. The connection behind it is the host's and may be shared. */
export class McpSession extends FdEntry {
  readonly kind = 'McpSession';
  readonly serverId: string;
  held: HeldResult | undefined;
  readonly #onRelease: () => void;

  constructor(serverId: string, onRelease: () => void) {
    super();
    this.serverId = serverId;
    this.#onRelease = onRelease;
  }

  readiness(): number {
    return OUT;
  }

  release(): void {
    this.#onRelease();
  }
}

/** A tool call under way. */
export class McpCall extends PendingEntry {
  readonly kind = 'McpCall';
  call = 0;
}
