import type { JsonObject } from '../base/json.ts';

/**
 * What the console of a registry reads over HTTP, beside the answers that are records. Plain JSON; texts of nodes and
 * servers are as they came, and whoever shows them makes them harmless.
 */

/** Whether a topic has changed is told by its number; which way, by asking for it again. */
export const liveTopics = ['servers', 'profiles', 'nodes', 'approvals', 'people', 'runs', 'stops'] as const;
export type LiveTopic = (typeof liveTopics)[number];

export interface LiveJson {
  /** Another after a restart: numbers of two boots cannot be compared. */
  readonly boot: string;
  readonly topics: Readonly<Record<LiveTopic, number>>;
}

/** Who looks. */
export interface MeJson {
  readonly name: string;
  readonly roles: readonly string[];
  readonly namespace: string;
  /** Permissions: `view`, `operate`, `decide`, … */
  readonly may: readonly string[];
  /** Whether they may see what a run said and was told. */
  readonly read_journals: boolean;
  /** The last rotation of their token, where another user made it. */
  readonly rotated_by?: { readonly name: string; readonly at_ms: number } | null;
}

export type HealthJson = 'idle' | 'connected' | 'degraded' | 'down';

/** How many processes see a server how. */
export type HealthCounts = Readonly<Record<HealthJson, number>>;

export interface ServerErrorJson {
  readonly server_id: string;
  readonly node_id: string;
  readonly age_ms: number;
  readonly health: HealthJson;
  readonly text: string;
}

export interface OverviewJson {
  readonly version: string;
  readonly up_ms: number;
  readonly epoch: string;
  readonly revision: number;
  readonly servers: number;
  readonly profiles: number;
  /** Why changes cannot be stored; null where they can. */
  readonly write_problem: string | null;
  readonly nodes: {
    readonly machines: number;
    readonly processes: number;
    /** Those whose registry is not `ready`. */
    readonly troubled: number;
    /** Those that act on an older revision. */
    readonly behind: number;
  };
  /** Servers, each by the worst that a process says of it. */
  readonly health: HealthCounts & { readonly unused: number };
  readonly errors: readonly ServerErrorJson[];
  /** Of the namespaces that whoever looks may know of. */
  readonly pending_approvals: number;
  readonly history: HistoryJson;
}

/** Columns of the same length, oldest first. */
export interface HistoryJson {
  readonly every_ms: number;
  readonly at_ms: readonly number[];
  readonly processes: readonly number[];
  readonly connected: readonly number[];
  readonly failing: readonly number[];
  readonly calls_in_flight: readonly number[];
  readonly latency_ms: readonly (number | null)[];
}

export interface ServerSummaryJson {
  readonly server_id: string;
  readonly display_name: string;
  readonly transport: string;
  /** Command or url, masked. */
  readonly target: string;
  readonly tags: readonly string[];
  readonly origin: string;
  readonly mod_revision: number;
  readonly updated_at_ms: number;
  readonly approval: string;
  readonly nodes: HealthCounts;
  /** The worst of them; null: no node has used it. */
  readonly health: HealthJson | null;
  readonly tool_count: number | null;
  readonly pinned: number;
  /** The mean of those that know one. */
  readonly latency_ms: number | null;
  readonly last_error: { readonly text: string; readonly node_id: string } | null;
}

export interface SummaryJson {
  readonly revision: number;
  readonly epoch: string;
  readonly servers: readonly ServerSummaryJson[];
}

/** Nodes that were given the same list are told together. */
export interface ServerToolsJson {
  readonly lists: readonly {
    readonly hash: string;
    readonly nodes: readonly string[];
    readonly tools: readonly {
      readonly name: string;
      readonly definition_sha256: string;
      /** Beside the pin of the record. */
      readonly pin: 'none' | 'same' | 'different';
    }[];
  }[];
}

export interface FieldProblemJson {
  readonly field: string;
  readonly detail: string;
}

/** What a write would do. Records are masked. */
export interface RecordCheckJson {
  readonly ok: boolean;
  readonly errors: readonly FieldProblemJson[];
  readonly warnings: readonly FieldProblemJson[];
  readonly before: JsonObject | null;
  /** Null: it cannot be stored. */
  readonly after: JsonObject | null;
}

export interface LayerAnswerJson {
  readonly layer: string;
  readonly rule: string;
  readonly verdict: 'allows' | 'denies' | 'silent';
  readonly matched: string | null;
  readonly text: string;
  readonly fix: string | null;
}

/** What decides about a server or a tool: the first denial, or what let it in last. */
export interface DecisionJson {
  readonly allowed: boolean;
  readonly by: Pick<LayerAnswerJson, 'layer' | 'rule' | 'matched'> | null;
  readonly text: string;
}

export interface AccessTaskJson {
  readonly name: string;
  /** Why the task cannot be used; empty: it can. */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
  /** In the order of the matrix; empty where there are problems. */
  readonly cells: readonly (DecisionJson & { readonly tools_allowed: number })[];
}

export interface AccessJson {
  readonly revision: number;
  readonly servers: readonly { readonly server_id: string; readonly tools: number | null }[];
  readonly tasks: readonly AccessTaskJson[];
}

export interface AccessServerJson {
  readonly server_id: string;
  /** Null: no node has told of them. */
  readonly tools: readonly { readonly name: string; readonly definition_sha256: string }[] | null;
  readonly tasks: readonly {
    readonly name: string;
    readonly walk: readonly LayerAnswerJson[];
    /** In the order of the tools. */
    readonly cells: readonly (DecisionJson & {
      readonly walk: readonly LayerAnswerJson[];
      readonly approval: readonly string[];
    })[];
  }[];
}

export interface TrailLineJson {
  /** Where it is, for a reader to go on from. */
  readonly at: string;
  /** Null: too long to be shown here. */
  readonly line: JsonObject | null;
  readonly bytes: number;
}

export interface TrailPageJson {
  /** Newest first. */
  readonly lines: readonly TrailLineJson[];
  /** For what is older; null: there is no more. */
  readonly older: string | null;
  /** For what comes after. */
  readonly newest: string;
  /** How much was read to find these. */
  readonly scanned_bytes: number;
}

/** A run, as its node told of it. */
export interface RunJson {
  readonly id: string;
  readonly namespace: string;
  readonly task: string;
  readonly revision: number;
  readonly status: string;
  readonly submitted_by: string;
  readonly submitted_at_ms: number;
  readonly started_at_ms: number | null;
  readonly ended_at_ms: number | null;
  readonly attempts: number;
  readonly exit: { readonly reason: string; readonly code: number | null; readonly message: string | null } | null;
  readonly cost: { readonly model_calls: number; readonly tool_calls: number; readonly total_tokens: number } | null;
  readonly status_reason?: string | null | undefined;
  readonly degraded?: readonly { readonly server: string; readonly reason: string }[] | null | undefined;
  readonly node: string;
}

export interface RunsJson {
  /** Newest first. */
  readonly runs: readonly RunJson[];
  /** Of which these are the first. */
  readonly total: number;
}
