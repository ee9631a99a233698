import type { MeJson } from '../registry/console-api.ts';

type Who = MeJson | null;

let who: Who = null;

/** Who is signed in, so that pages offer only what the registry would let them do. It decides, not this. */
export function setWho(given: Who): void {
  who = given;
}

export function whoIsIt(): Who {
  return who;
}

const may = (permission: string) => who?.may.includes(permission) ?? false;
/** Somebody of one namespace changes nothing that all namespaces share. */
const isOfAll = () => who?.namespace === '*';

export const mayOperate = () => may('operate') && isOfAll();
export const mayDecide = () => may('decide');
export const mayAdminister = () => may('administer') && isOfAll();
export const mayReadJournals = () => who?.read_journals ?? false;
/** Authentication is off: every caller has this name, which no token can have. */
export const isAnonymous = () => who?.name === 'anybody';
