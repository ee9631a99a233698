import { OUT } from './readiness.ts';
import { FdEntry, PendingEntry } from './table.ts';

/** A result that did not fit the guest's buffer, retained for the identical call to fetch it. */
export interface HeldResult {
  /** The op of the request: a tool and a prompt may have the same name. */
  readonly op: string;
  readonly name: string;
  readonly args: string;
  readonly body: string;
  /** Size of the body. */
  readonly bytes: number;
}

/** A server that the guest has opened. The host owns the connection and may share it. */
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

/** A pending or finished tool call, resource read or prompt. */
export class McpCall extends PendingEntry {
  readonly kind = 'McpCall';
  call = 0;
}
