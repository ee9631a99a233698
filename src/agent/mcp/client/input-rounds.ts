import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';

/** How often a server may have one call sent again. */
export const MAX_INPUT_ROUNDS = 10;
/** What it may ask for in one of those rounds. */
export const MAX_INPUTS_PER_ROUND = 10;

/** What a server wants before it goes on with a call: answers by the keys it gave, and its own state back. */
export interface InputRound {
  readonly state: string | null;
  readonly requests: readonly (readonly [key: string, request: JsonObject])[];
}

/** Null: the server gave a result, or something that cannot be gone on with. */
export function inputRound({ resultType, inputRequests, requestState }: JsonObject): InputRound | null {
  if (resultType !== 'input_required') return null;
  const entries = inputRequests === undefined ? [] : isJsonObject(inputRequests) ? Object.entries(inputRequests) : null;
  const state = typeof requestState === 'string' ? requestState : null;
  if (entries === null || entries.length > MAX_INPUTS_PER_ROUND || (entries.length === 0 && state === null))
    return null;
  const isRequest = (entry: [string, JsonValue]): entry is [string, JsonObject] => isJsonObject(entry[1]);
  return entries.every(isRequest) ? { state, requests: entries } : null;
}

/** What the call is sent with once more: the state exactly as it was given, and none where none was. */
export function continuation({ state }: InputRound, responses: readonly (readonly [string, JsonObject])[]): JsonObject {
  return {
    ...(responses.length === 0 ? {} : { inputResponses: Object.fromEntries(responses) }),
    ...(state === null ? {} : { requestState: state }),
  };
}
