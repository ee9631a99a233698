/** A question that is put to nobody. The message says why, in words that follow the server's name. */
export class UnusableQuestion extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'UnusableQuestion';
  }
}
