import type { JsonObject } from '../protocol/json.ts';

/** A server or tool that a session did not get. */
export interface AuditExclusion {
  readonly server: string;
  readonly tool: string | null;
  readonly reason: string;
  readonly layer: string;
  readonly detail: string;
}

/**
 * The lines of the audit trail. Every line also has `v` (the version of this schema), `time` (ISO 8601, UTC) and `run`.
 * `audit.schema.json` says the same as JSON Schema; fields may be added, none is renamed.
 */
export type AuditEvent =
  | { readonly event: 'guest.started'; readonly module: string; readonly task: string | null }
  | {
      readonly event: 'guest.ended';
      readonly status: string;
      readonly exit_code: number | null;
      readonly duration_ms: number;
    }
  | {
      readonly event: 'session.created';
      readonly session: string;
      readonly registry_revision: number | null;
      readonly servers: readonly string[];
      readonly exclusions: readonly AuditExclusion[];
    }
  | {
      readonly event: 'mcp.injected';
      readonly session: string;
      readonly server: string;
      readonly status: 'ok' | 'failed';
      readonly reason: string | null;
      readonly tools: number;
      readonly exclusions: readonly AuditExclusion[];
      readonly duration_ms: number;
    }
  | {
      readonly event: 'tool_call.started';
      readonly session: string | null;
      readonly request: string;
      readonly source: 'native' | 'mcp';
      readonly server: string | null;
      readonly tool: string;
      /** What the arguments look like, never what they say. */
      readonly arguments: JsonObject | null;
    }
  | {
      readonly event: 'tool_call.finished';
      readonly session: string | null;
      readonly request: string;
      readonly source: 'native' | 'mcp';
      readonly server: string | null;
      readonly tool: string;
      /** `ok`, `denied`, or `failed`. */
      readonly status: 'ok' | 'denied' | 'failed';
      /** The code of the error, or the reason of the denial. */
      readonly reason: string | null;
      readonly duration_ms: number;
      readonly bytes: number;
    }
  | {
      readonly event: 'budget.hit';
      readonly session: string | null;
      readonly server: string | null;
      readonly tool: string | null;
      readonly budget: string;
    };

export const AUDIT_VERSION = 1;

/** Where audit lines go. Writing never fails the work that is being audited. */
export interface AuditTrail {
  write(run: string, event: AuditEvent): void;
}

export const noAudit: AuditTrail = Object.freeze({ write: () => {} });
