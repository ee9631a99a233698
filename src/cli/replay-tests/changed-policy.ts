import { statSync } from 'node:fs';
import { type ApprovalRule, type ApprovalRules, noRules } from '../../agent/policy/approval-rules.ts';
import { parseApprovalRules } from '../../agent/policy/approval-rules-parse.ts';
import type { RegistryView } from '../../agent/policy/registry-view.ts';
import { parseTaskPolicy } from '../../agent/policy/task-policy.ts';
import { errorCode } from '../../base/error-text.ts';
import type { JsonObject } from '../../base/json.ts';
import { ConfigError } from '../../config/config-error.ts';
import { loadTaskConfig } from '../../config/task/task-config.ts';
import { libraryWords } from '../../run/library-words.ts';
import { openRunRegistry } from '../../run/open-registry.ts';
import type { JournalHeader } from '../../runtime/durable/journal.ts';
import type { TaskPolicy } from '../../runtime/port/policy-layers.ts';

/** The policy that one run is judged by. */
export interface PolicyOfRun {
  /** Null: no records were given, and what they say is taken as it was. */
  readonly view: RegistryView | null;
  readonly task: TaskPolicy;
  readonly rules: ApprovalRules;
}

interface ChangedTask {
  readonly file: string;
  readonly policy: TaskPolicy;
  readonly rules: readonly ApprovalRule[];
}

/** Tomorrow's policy: a directory of records and profiles, configs of tasks, or both. */
export class ChangedPolicy {
  readonly #view: RegistryView | null;
  readonly #tasks: ReadonlyMap<string | null, ChangedTask>;

  private constructor(view: RegistryView | null, tasks: ReadonlyMap<string | null, ChangedTask>) {
    this.#view = view;
    this.#tasks = tasks;
  }

  /** @throws ConfigError for what cannot be used: half a policy would be another one */
  static async open(paths: readonly string[], onNotice: (text: string) => void): Promise<ChangedPolicy> {
    let view: RegistryView | null = null;
    const tasks = new Map<string | null, ChangedTask>();
    for (const path of paths) {
      if (!isDirectory(path)) {
        const [name, task] = await readTask(path, onNotice);
        const before = tasks.get(name);
        const about = name === null ? 'tasks without a name' : `the task ${JSON.stringify(name)}`;
        if (before !== undefined)
          throw new ConfigError(`${path}: ${before.file} also configures ${about}; give only one of them`);
        tasks.set(name, task);
        continue;
      }
      if (view !== null) throw new ConfigError(`${path}: only one directory of servers and profiles can be given`);
      view = await readRecords(path, onNotice);
    }
    return new ChangedPolicy(view, tasks);
  }

  /** Null: nothing that was given is about the run. A config without a name is about every task. @throws ConfigError */
  of(header: JournalHeader): PolicyOfRun | null {
    const changed = this.#tasks.get(header.task) ?? this.#tasks.get(null);
    if (changed === undefined && this.#view === null) return null;
    const recorded = rulesOf(header);
    return {
      view: this.#view,
      task: changed?.policy ?? header.policy,
      rules: changed === undefined ? recorded : { node: recorded.node, task: changed.rules },
    };
  }
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (error) {
    throw new ConfigError(`${path}: cannot be read (${errorCode(error)})`);
  }
}

async function readTask(file: string, onNotice: (text: string) => void): Promise<[string | null, ChangedTask]> {
  const { name, config } = await loadTaskConfig(file);
  const parsed = parseTaskPolicy(config);
  const describe = ({ key, message }: { key: string; message: string }) => `${file}: config.${key}: ${message}`;
  if (!parsed.ok) throw new ConfigError(parsed.issues.map(describe).join('\n'));
  for (const warning of parsed.warnings) onNotice(describe(warning));
  return [name, { file, policy: parsed.policy, rules: parsed.approvalRules }];
}

async function readRecords(directory: string, onNotice: (text: string) => void): Promise<RegistryView | null> {
  const opener = { words: libraryWords, say: onNotice, profiles: true };
  const registry = await openRunRegistry({ directory, strict: true }, opener);
  try {
    return registry.cache.view();
  } finally {
    await registry.close();
  }
}

function rulesOf({ approval_rules: recorded }: JournalHeader): ApprovalRules {
  if (recorded === undefined) return noRules;
  const read = (layer: 'node' | 'task', rules: readonly JsonObject[]) => {
    const parsed = parseApprovalRules(rules);
    if (!parsed.ok) throw new ConfigError(`approval_rules.${layer} of the journal header cannot be read`);
    return parsed.rules;
  };
  return { node: read('node', recorded.node), task: read('task', recorded.task) };
}
