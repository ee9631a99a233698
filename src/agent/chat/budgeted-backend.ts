import { isJsonObject, type JsonObject } from '../../base/json.ts';
import { BackendError, type ChatBackend, type ChatRequest } from './backend.ts';

/** Estimated request bytes per token. Other languages than English have more bytes per token, so this overestimates. */
const BYTES_PER_TOKEN = 3;
/** Estimated tokens of an answer if the request sets no limit. */
const ANSWER_TOKENS = 1_024;

/** Token consumption of one budget. */
export interface TokenLedger {
  spent: number;
  /** Tokens reserved by sends in flight. */
  reserved: number;
  /** Shared counter, if other machines spend from the same budget. @default none */
  readonly shared?: SharedLedger;
}

/** Consumption of a budget that several machines share. */
export interface SharedLedger {
  /** Reserves tokens. Null: reserved; else the number of tokens already spent or reserved. */
  reserve(tokens: number, limit: number): Promise<number | null>;
  /** Replaces a reservation with the tokens that were spent. */
  settle(reserved: number, took: number): void;
}

/** Token budget of one scope. */
export interface TokenAccount {
  /** Name in error messages. */
  readonly name: string;
  readonly limit: number;
  /** Consumption of all spenders of the budget. */
  readonly ledger: TokenLedger;
}

/**
 * Wraps a backend with token budgets. A send reserves its estimate in every account first, so that concurrent sends
 * cannot overspend together, and records the tokens it used afterwards.
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

/** Reserves in all shared accounts, or in none. @throws BackendError */
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

/** Tokens as counted by the provider; 0: not reported. */
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
