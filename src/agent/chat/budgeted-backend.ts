import { isJsonObject, type JsonObject } from '../../base/json.ts';
import { BackendError, type ChatBackend, type ChatRequest } from './backend.ts';

/** A token is about so many bytes of a request; more for every language but English, so it errs to the safe side. */
const BYTES_PER_TOKEN = 3;
/** What an answer is expected to take where the request does not bound it. */
const ANSWER_TOKENS = 1_024;

/** What is spent for something. */
export interface TokenLedger {
  spent: number;
  /** By sends that are under way. */
  reserved: number;
  /** Where others on other machines spend for the same: what they have counts too. @default nobody does */
  readonly shared?: SharedLedger;
}

/** What is spent for something, counted where all who spend for it can. */
export interface SharedLedger {
  /** Null: they are taken. Otherwise how many are taken already. */
  reserve(tokens: number, limit: number): Promise<number | null>;
  /** Of those that were reserved, so many were spent. */
  settle(reserved: number, took: number): void;
}

/** Tokens that may be spent for something. */
export interface TokenAccount {
  /** What a refusal calls it. */
  readonly name: string;
  readonly limit: number;
  /** Of everybody who spends for the same. */
  readonly ledger: TokenLedger;
}

/**
 * The same backend, whose sends fit into all accounts. Before a send its estimate is reserved in each, so that sends at
 * the same time cannot overspend together; after it what it took is spent.
 */
export function budgetedBackend(
  backend: ChatBackend,
  open: () => Promise<readonly TokenAccount[]>,
  onSpent: (tokens: number) => void,
): ChatBackend {
  return {
    name: backend.name,
    model: backend.model,
    images: backend.images,
    complete: async (request, signal, by) => {
      const accounts = await open();
      const estimate = estimateOf(request);
      const short = accounts.find(({ limit, ledger }) => ledger.spent + ledger.reserved + estimate > limit);
      if (short !== undefined) throw exceeded(short, estimate);
      for (const { ledger } of accounts) ledger.reserved += estimate;
      let took = 0;
      let held: readonly SharedLedger[] = [];
      try {
        held = await reserveShared(accounts, estimate);
        const body = await backend.complete(request, signal, by);
        took = isJsonObject(body.usage ?? null) ? totalTokens(body.usage as JsonObject) : 0;
        return body;
      } finally {
        for (const { ledger } of accounts) {
          ledger.reserved -= estimate;
          ledger.spent += took;
        }
        for (const shared of held) shared.settle(estimate, took);
        if (took > 0) onSpent(took);
      }
    },
    close: () => backend.close(),
  };
}

/** In all accounts that are shared, or in none. @throws BackendError */
async function reserveShared(accounts: readonly TokenAccount[], estimate: number): Promise<readonly SharedLedger[]> {
  const held: SharedLedger[] = [];
  try {
    for (const { name, limit, ledger } of accounts) {
      if (ledger.shared === undefined) continue;
      const spent = await ledger.shared.reserve(estimate, limit);
      if (spent !== null) throw exceeded({ name, limit, ledger: { spent, reserved: 0 } }, estimate);
      held.push(ledger.shared);
    }
    return held;
  } catch (error) {
    for (const shared of held) shared.settle(estimate, 0);
    if (error instanceof BackendError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new BackendError('budget_exceeded', `the remaining token budget is unknown: ${why}`, { retryable: true });
  }
}

function estimateOf(request: ChatRequest): number {
  const bound = [request.max_completion_tokens, request.max_tokens].find((value) => typeof value === 'number');
  return Math.ceil(Buffer.byteLength(JSON.stringify(request)) / BYTES_PER_TOKEN) + Number(bound ?? ANSWER_TOKENS);
}

/** As the provider counts; 0 where it does not say. */
export function totalTokens(usage: Readonly<Record<string, unknown>>): number {
  const { total_tokens: total, prompt_tokens: prompt, completion_tokens: completion } = usage;
  return typeof total === 'number' ? total : Number(prompt ?? 0) + Number(completion ?? 0);
}

function exceeded({ name, limit, ledger }: TokenAccount, estimate: number): BackendError {
  const { spent, reserved } = ledger;
  const taken = reserved === 0 ? '' : ` and ${reserved} are reserved`;
  const message = `${name} = ${limit}: ${spent} tokens are spent${taken}, and this send is estimated at ${estimate}`;
  return new BackendError('budget_exceeded', message, { retryable: false });
}
