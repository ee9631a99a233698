import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';
import { conceptsOf, wordsOf, wordsOfName, wordsOfQuery } from './words.ts';

/** The searchable fields of a tool. */
export interface SearchableTool {
  /** As the server calls it. */
  readonly tool: string;
  readonly record: { readonly server_id: string; readonly display_name: string };
  readonly description: string;
  readonly parameters: JsonObject;
}

/** BM25 saturation: how fast repetitions of a word stop counting. */
const SATURATION = 1.6;

/** Weight of a word by field, and the length penalty of the field. */
const fields = {
  name: { weight: 6, lengthPenalty: 0.6 },
  server: { weight: 3, lengthPenalty: 0 },
  /** The start of a description says what the tool does. */
  lead: { weight: 1.5, lengthPenalty: 0.3 },
  description: { weight: 0.5, lengthPenalty: 0.5 },
  parameters: { weight: 0.2, lengthPenalty: 0.8 },
} as const;
type Field = keyof typeof fields;
const fieldNames = Object.keys(fields) as Field[];

/** Lower bound for the share of tools with a word, so that a word of a single tool does not dominate. */
const RARE_SHARE = 0.04;
const LEAD_CHARS = 160;
/** Weight of a synonym relative to the word itself. */
const CONCEPT_WEIGHT = 0.9;
/** Prefix matches: mongo, mongodb. */
const MIN_PREFIX = 4;
const PREFIX_WEIGHT = 0.5;
/** Bonus for a tool whose whole name is in the query: `delete_issue` instead of `delete_issue_link`. */
const NAME_BONUS = 0.25;
/** Exponent of the penalty for covering only a part of the query. */
const COVERAGE_POWER = 0.5;
/** Indexed text of all parameters of a tool. */
const MAX_PARAMETER_CHARS = 4_096;
/** Deeper parameters are not indexed. */
const MAX_SCHEMA_DEPTH = 4;

/** A word, and the terms that match it. */
interface QueryWord {
  readonly terms: readonly string[];
  readonly rarity: number;
}

/** Share of the words that match, weighted by rarity. */
function shareOf(words: readonly QueryWord[], has: (term: string) => boolean): number {
  let there = 0;
  let all = 0;
  for (const { terms, rarity } of words) {
    all += rarity;
    if (terms.some(has)) there += rarity;
  }
  return all === 0 ? 0 : there / all;
}

type Texts = Readonly<Record<Field, readonly string[]>>;

/**
 * Ranks tools by BM25 over their names, descriptions and parameters, and by how much of the query and of its own name a
 * tool covers. The same tools give the same ranks.
 */
export class ToolIndex<Tool extends SearchableTool> {
  readonly #tools: readonly Tool[];
  /** Term → index of the tool → weight. */
  readonly #postings = new Map<string, Map<number, number>>();
  /** By index of the tool: the words of its name with synonyms and rarity. */
  readonly #names: readonly (readonly QueryWord[])[];

  constructor(tools: readonly Tool[]) {
    this.#tools = tools;
    const texts = tools.map(termsOf);
    for (const field of fieldNames) this.#add(field, texts);
    this.#names = tools.map(({ tool }) =>
      wordsOfName(tool).map((word) => ({ terms: withConcepts([word]), rarity: this.#rarity(word) })),
    );
  }

  /** Best match first; tools without any match are left out. Ties keep the order of the tools. */
  search(query: string, limit: number): Tool[] {
    const { weights, asked } = this.#queryTerms(query);
    const scores = new Map<number, number>();
    for (const [term, weight] of weights) {
      const rarity = this.#rarity(term);
      for (const [at, amount] of this.#postings.get(term) ?? []) {
        const share = (amount * (SATURATION + 1)) / (amount + SATURATION);
        scores.set(at, (scores.get(at) ?? 0) + weight * rarity * share);
      }
    }
    const whole = ([at, score]: [number, number]): [number, number] => {
      const covered = shareOf(asked, (term) => this.#postings.get(term)?.has(at) === true);
      const named = shareOf(this.#names[at] ?? [], (term) => weights.has(term));
      return [at, score * covered ** COVERAGE_POWER * (1 + NAME_BONUS * named)];
    };
    return [...scores]
      .map(whole)
      .sort(([a, one], [b, other]) => other - one || a - b)
      .slice(0, limit)
      .map(([at]) => this.#tools[at] as Tool);
  }

  #rarity(term: string): number {
    const spread = Math.max(this.#postings.get(term)?.size ?? 0, RARE_SHARE * this.#tools.length);
    return Math.log(1 + (this.#tools.length - spread + 0.5) / (spread + 0.5));
  }

  #add(field: Field, texts: readonly Texts[]): void {
    const { weight, lengthPenalty } = fields[field];
    const total = texts.reduce((sum, text) => sum + text[field].length, 0);
    const mean = Math.max(1, total / Math.max(1, texts.length));
    for (const [at, { [field]: terms }] of texts.entries()) {
      const each = weight / (1 - lengthPenalty + (lengthPenalty * terms.length) / mean);
      for (const term of terms) {
        const having = this.#postings.get(term) ?? new Map<number, number>();
        this.#postings.set(term, having.set(at, (having.get(at) ?? 0) + each));
      }
    }
  }

  #queryTerms(query: string): { weights: Map<string, number>; asked: QueryWord[] } {
    const weights = new Map<string, number>();
    const asked = [...new Set(wordsOfQuery(query))].map((word): QueryWord => {
      const longer = this.#longerThan(word);
      const concepts = conceptsOf(word).map(conceptTerm);
      weights.set(word, 1);
      for (const term of longer) weights.set(term, PREFIX_WEIGHT);
      for (const term of concepts) weights.set(term, CONCEPT_WEIGHT);
      return { terms: [word, ...longer, ...concepts], rarity: this.#rarity(word) };
    });
    return { weights, asked };
  }

  #longerThan(word: string): string[] {
    if (word.length < MIN_PREFIX) return [];
    return [...this.#postings.keys()].filter((term) => term.length > word.length && term.startsWith(word));
  }
}

/** The term of a concept, distinct from the word that names it. */
const conceptTerm = (concept: string) => `=${concept}`;

function termsOf({ tool, record, description, parameters }: SearchableTool): Texts {
  const { server_id: id, display_name: shown } = record;
  return {
    name: withConcepts(wordsOfName(tool)),
    server: terms(shown === id ? id : `${id} ${shown}`),
    lead: terms(description.slice(0, LEAD_CHARS)),
    description: terms(description),
    parameters: terms([...parameterTexts(parameters, 0)].join('\n').slice(0, MAX_PARAMETER_CHARS)),
  };
}

/** Words and their concepts. */
function terms(text: string): string[] {
  return withConcepts(wordsOf(text));
}

function withConcepts(words: readonly string[]): string[] {
  return words.flatMap((word) => [word, ...conceptsOf(word).map(conceptTerm)]);
}

/** Names and descriptions of a schema's parameters. */
function* parameterTexts(schema: JsonValue | undefined, depth: number): Generator<string> {
  if (!isJsonObject(schema) || depth > MAX_SCHEMA_DEPTH) return;
  if (depth > 0 && typeof schema.description === 'string') yield schema.description;
  if (Array.isArray(schema.enum)) yield* schema.enum.filter((value) => typeof value === 'string');
  if (isJsonObject(schema.properties)) {
    for (const [name, property] of Object.entries(schema.properties)) {
      yield name;
      yield* parameterTexts(property, depth + 1);
    }
  }
  yield* parameterTexts(schema.items, depth + 1);
}
