import { OUT } from './readiness.ts';
import { FdEntry, PendingEntry } from './table.ts';

/** A result that did not fit the guest's buffer and waits for the same call to fetch it. */
export interface HeldResult {
  /** What was asked for: the same name may be that of a tool and of a prompt. */
  readonly op: string;
  readonly name: string;
  readonly args: string;
  readonly body: string;
  /** Of the body. */
  readonly bytes: number;
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

/** A call, a read or a prompt under way. */
export class McpCall extends PendingEntry {
  readonly kind = 'McpCall';
  call = 0;
}
