import {
  loadSchemaEngine,
  type SchemaEngine,
  SchemaStrikes,
  type ValidationResult,
} from '../../../src/agent/mcp/client/schema/checks.ts';
import { SchemaThread } from '../../../src/agent/mcp/client/schema/schema-thread.ts';
import { compileToolList } from '../../../src/agent/mcp/client/tool-list.ts';
import type { JsonObject, JsonValue } from '../../../src/base/json.ts';
import { Random } from '../random.ts';
import { held } from '../schemas/held.ts';
import { dear, type HostileSchema, huge, quick } from '../schemas/hostile.ts';
import { knownSchema } from '../schemas/known.ts';
import { type Effort, Failures, type Finding, type Topic } from '../topic.ts';

/** What the thread of the host is held at a time, at most. */
const MAX_HELD_MS = 50;
/** As the pool has it, but for the time: many are given up here, one after the other. */
const limits = { maxSchemaBytes: 1024 * 1024, maxSchemaDepth: 64, validationTimeoutMs: 250 };
/** For schemas that mean no harm: a busy machine is no reason to leave one unchecked. */
const patient = { ...limits, validationTimeoutMs: 20_000 };

const NOT_OFFERED = Symbol('the tool is not offered');

interface Case {
  readonly schema: JsonObject;
  readonly values: readonly JsonValue[];
  /** Whether they are arguments or results. */
  readonly subject: 'input' | 'output';
  /** What is wrong with the verdicts about the values, or null. */
  readonly wrong: (verdicts: readonly ValidationResult[] | typeof NOT_OFFERED) => string | null;
}

const known = (random: Random): Case => {
  const { schema, good, bad } = knownSchema(random);
  return {
    schema,
    values: [good, bad],
    subject: random.pick(['input', 'output']),
    wrong: (verdicts) => {
      if (verdicts === NOT_OFFERED) return 'the tool was not offered';
      if (verdicts[0] !== null) return `a good value was not taken: ${JSON.stringify(verdicts[0])}`;
      const refused = verdicts[1] !== null && verdicts[1] !== undefined && 'problem' in verdicts[1];
      return refused ? null : `a bad value was taken: ${JSON.stringify(verdicts[1])}`;
    },
  };
};

const hostile = ({ schema, value, refused }: HostileSchema, random: Random): Case => ({
  schema,
  values: [value],
  subject: random.pick(['input', 'output']),
  wrong: (verdicts) => (refused && verdicts !== NOT_OFFERED ? 'the tool was offered' : null),
});

const anyOf = (attacks: Readonly<Record<string, (random: Random) => HostileSchema>>) => {
  const all = Object.values(attacks);
  let next = 0;
  return (random: Random): Case => hostile((all[next++ % all.length] as (typeof all)[number])(random), random);
};

export const topic: Topic = async (effort) => {
  const thread = new SchemaThread({ maxQueued: 1_024, idleMs: 60_000 });
  const engines = { hasty: await loadSchemaEngine(thread, limits), patient: await loadSchemaEngine(thread, patient) };
  const { length: dearKinds } = Object.keys(dear);
  const { length: hugeKinds } = Object.keys(huge);
  const tortures = [
    new SchemaTorture('schemas whose verdict is known', effort.of(200, 69_770), engines.patient, known),
    new SchemaTorture('hostile schemas', effort.of(250, 30_000), engines.hasty, anyOf(quick)),
    new SchemaTorture('dear schemas and values', effort.of(dearKinds, 180), engines.hasty, anyOf(dear)),
    new SchemaTorture('as large as a message may be', effort.of(hugeKinds, 50), engines.hasty, anyOf(huge)),
  ];
  // The one that is furthest behind: when the time is up, all have had their share.
  const next = () => tortures.filter(({ done }) => done < 1).sort((a, b) => a.done - b.done)[0];
  for (let torture = next(); torture !== undefined && !effort.isOver(); torture = next()) await torture.step(effort);
  await thread.close();
  return tortures.map((torture) => torture.finding());
};

class SchemaTorture {
  readonly #what: string;
  readonly #goal: number;
  readonly #engine: SchemaEngine;
  readonly #make: (random: Random) => Case;
  readonly #failures = new Failures();
  #count = 0;
  #inThread = 0;
  #longest = { cpuMs: 0, wallMs: 0 };

  constructor(what: string, goal: number, engine: SchemaEngine, make: (random: Random) => Case) {
    this.#what = what;
    this.#goal = goal;
    this.#engine = engine;
    this.#make = make;
  }

  /** The share of its schemas that were tried. */
  get done(): number {
    return this.#count / this.#goal;
  }

  /** Tries one schema. */
  async step({ random, progress }: Effort): Promise<void> {
    const seed = random.seed();
    const made = this.#make(new Random(seed));
    const which = (problem: string) => `case ${this.#count}, ${seed}: ${problem}; ${shown(made)}`;
    try {
      const { value, held: was } = await held(() => verdictsOf(made, this.#engine, () => this.#inThread++));
      const wrong = made.wrong(value);
      if (wrong !== null) this.#failures.add(which(wrong));
      if (was.cpuMs > MAX_HELD_MS) this.#failures.add(which(`held the thread for ${was.cpuMs.toFixed(0)} ms`));
      this.#longest.cpuMs = Math.max(this.#longest.cpuMs, was.cpuMs);
      this.#longest.wallMs = Math.max(this.#longest.wallMs, was.wallMs);
    } catch (error) {
      this.#failures.add(which(String(error)));
    }
    progress(++this.#count, this.#goal);
  }

  finding(): Finding {
    const { cpuMs, wallMs } = this.#longest;
    const hold = `longest hold ${cpuMs.toFixed(0)} ms (by the clock ${wallMs.toFixed(0)} ms)`;
    const measured = `${hold}; ${this.#inThread} values in the thread for schemas`;
    return { what: this.#what, count: this.#count, lost: 0, crashed: 0, measured, failures: this.#failures.list() };
  }
}

/** From the list of a server to what is said about a value, as the pool has it. */
async function verdictsOf(
  { schema, values, subject }: Case,
  engine: SchemaEngine,
  later: () => void,
): Promise<readonly ValidationResult[] | typeof NOT_OFFERED> {
  const listed = [{ name: 'tool', inputSchema: schema, outputSchema: schema }];
  const details = {
    serverId: 'torture',
    version: 1,
    engine,
    strikes: new SchemaStrikes(),
    notice: null,
    instructions: null,
    mirrorsHeaders: false,
    onWarning: () => {},
  };
  const { tools } = await compileToolList(listed, '', details);
  const tool = tools.get('tool');
  if (tool === undefined) return NOT_OFFERED;
  const check = tool[subject] ?? tool.input;
  const verdicts: ValidationResult[] = [];
  for (const value of values) {
    const verdict = check.check(value);
    if (verdict instanceof Promise) later();
    verdicts.push(await verdict);
  }
  return verdicts;
}

const SHOWN_CHARS = 400;
const shown = ({ schema }: Case): string => JSON.stringify(schema).slice(0, SHOWN_CHARS);
