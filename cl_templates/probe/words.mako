## -*- coding: utf-8 -*-
## Whether an atomics strategy compiles, runs and returns correct results.
<%def name="words()">
/* Every word function once, by the first work-item, with its results; and an addition by all work-items of all groups.
   `word` has two lines of ${line_words} words, all 0; `answers` gets what each call returned. */
kernel void portbar_probe_words(volatile global uint *word, global uint *answers)
{
    portbar_word_add(word + ${line_words}, 3u);
    if (get_global_id(0) != 0)
        return;
    portbar_word_store(word, 5u);
    answers[0] = portbar_word_load(word);
    portbar_word_store_release(word, 7u);
    answers[1] = portbar_word_load_acquire(word);
    answers[2] = portbar_word_add(word, 2u);
    answers[3] = portbar_word_add_release(word, 1u);
    answers[4] = portbar_word_or(word, 0x21u);
    answers[5] = portbar_word_exchange(word, 100u);
    answers[6] = portbar_word_compare_exchange(word, 100u, 200u);
    answers[7] = portbar_word_compare_exchange(word, 100u, 300u);
    answers[8] = portbar_word_load(word);
}
</%def>
