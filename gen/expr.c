#include "gen/program.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An expression is compiled to postfix code for a small stack: evaluation neither allocates nor recurses,
 * since it happens at every launch. */
typedef enum expr_code { PUSH, SCALAR, FACT, ADD, SUB, MUL, DIV, CEILDIV, MIN, MAX, NEG } expr_code;

typedef struct expr_step {
    expr_code code;
    int64_t value; /* PUSH: the number; SCALAR, FACT: the index */
} expr_step;

enum { MAX_STEPS = 128, MAX_DEPTH = 32, MAX_NESTING = 32 };

struct qg_expr {
    char *where;
    int count;
    bool constant;
    int64_t value; /* when constant */
    expr_step steps[];
};

static const struct {
    const char *name;
    int scalar;
} scalars[] = {{"batch", QG_BATCH}, {"lda", QG_LDA}, {"ldh", QG_LDH}};

static const struct {
    const char *name;
    size_t offset;
} facts[] = {{"sms", offsetof(qg_device, sms)},
             {"smem_optin", offsetof(qg_device, smem_optin)},
             {"smem_sm", offsetof(qg_device, smem_sm)},
             {"l2", offsetof(qg_device, l2)},
             {"max_cluster", offsetof(qg_device, max_cluster)},
             {"regs", offsetof(qg_device, regs)}};

static const struct {
    const char *name;
    expr_code code;
} functions[] = {{"ceildiv", CEILDIV}, {"min", MIN}, {"max", MAX}};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define ALLOWED                                                                                              \
    "allowed: integers, + - * / ( ), ceildiv(a, b), min(a, b), max(a, b), batch, lda, ldh, sms, "            \
    "smem_optin, smem_sm, l2, max_cluster, regs"

typedef struct parser {
    const char *text, *at, *where;
    expr_step steps[MAX_STEPS];
    int count, depth, deepest, nesting;
    qg_error *err;
} parser;

static qg_status refuse(parser *p, const char *why) {
    return qg_failf(p->err, QG_BAD_INPUT, p->where, ALLOWED, "in expression \"%.200s\" at character %d: %s",
                    p->text, (int)(p->at - p->text) + 1, why);
}

static qg_status emit(parser *p, expr_code code, int64_t value) {
    if (p->count == MAX_STEPS) return refuse(p, "it is too long");
    p->steps[p->count++] = (expr_step){code, value};
    if (code <= FACT)
        p->depth++;
    else if (code != NEG)
        p->depth--;
    if (p->depth > MAX_DEPTH) return refuse(p, "it is nested too deeply");
    return QG_OK;
}

static void skip_space(parser *p) {
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n')
        p->at++;
}

static bool take(parser *p, char c) {
    skip_space(p);
    if (*p->at != c) return false;
    p->at++;
    return true;
}

static qg_status parse_sum(parser *p);

static qg_status parse_number(parser *p) {
    int64_t v = 0;
    for (; isdigit((unsigned char)*p->at); p->at++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p->at - '0', &v))
            return refuse(p, "the number does not fit 64 bits");
    return emit(p, PUSH, v);
}

static qg_status parse_call(parser *p, expr_code code) {
    if (!take(p, '(')) return refuse(p, "expected '(' after the function's name");
    qg_status s = parse_sum(p);
    if (s) return s;
    if (!take(p, ',')) return refuse(p, "expected ',' between the function's two arguments");
    if ((s = parse_sum(p))) return s;
    if (!take(p, ')')) return refuse(p, "expected ')'");
    return emit(p, code, 0);
}

static qg_status parse_name(parser *p) {
    const char *start = p->at;
    while (isalnum((unsigned char)*p->at) || *p->at == '_')
        p->at++;
    size_t size = (size_t)(p->at - start);
#define IS(name) (strlen(name) == size && memcmp(name, start, size) == 0)
    for (size_t i = 0; i < COUNT(functions); i++)
        if (IS(functions[i].name)) return parse_call(p, functions[i].code);
    for (size_t i = 0; i < COUNT(scalars); i++)
        if (IS(scalars[i].name)) return emit(p, SCALAR, scalars[i].scalar);
    for (size_t i = 0; i < COUNT(facts); i++)
        if (IS(facts[i].name)) return emit(p, FACT, (int64_t)i);
#undef IS
    p->at = start;
    return refuse(p, "unknown name");
}

static qg_status parse_atom(parser *p) {
    skip_space(p);
    if (++p->nesting > MAX_NESTING) return refuse(p, "it is nested too deeply");
    qg_status s;
    if (isdigit((unsigned char)*p->at)) {
        s = parse_number(p);
    } else if (isalpha((unsigned char)*p->at) || *p->at == '_') {
        s = parse_name(p);
    } else if (take(p, '-')) {
        s = parse_atom(p);
        if (!s) s = emit(p, NEG, 0);
    } else if (take(p, '(')) {
        s = parse_sum(p);
        if (!s && !take(p, ')')) s = refuse(p, "expected ')'");
    } else {
        s = refuse(p, *p->at ? "unexpected character" : "it ends too early");
    }
    p->nesting--;
    return s;
}

static qg_status parse_product(parser *p) {
    qg_status s = parse_atom(p);
    while (!s) {
        expr_code code;
        if (take(p, '*'))
            code = MUL;
        else if (take(p, '/'))
            code = DIV;
        else
            break;
        s = parse_atom(p);
        if (!s) s = emit(p, code, 0);
    }
    return s;
}

static qg_status parse_sum(parser *p) {
    qg_status s = parse_product(p);
    while (!s) {
        expr_code code;
        if (take(p, '+'))
            code = ADD;
        else if (take(p, '-'))
            code = SUB;
        else
            break;
        s = parse_product(p);
        if (!s) s = emit(p, code, 0);
    }
    return s;
}

static const char *floor_div(int64_t a, int64_t b, int64_t *out) {
    if (b == 0) return "division by zero";
    if (a == INT64_MIN && b == -1) return "overflow of 64 bits";
    int64_t q = a / b;
    *out = q - ((a % b != 0) && ((a < 0) != (b < 0)));
    return NULL;
}

static const char *ceil_div(int64_t a, int64_t b, int64_t *out) {
    const char *why = floor_div(a, b, out);
    if (!why) *out += a % b != 0;
    return why;
}

static const char *apply(expr_code code, int64_t a, int64_t b, int64_t *out) {
    switch (code) {
    case ADD:
        return __builtin_add_overflow(a, b, out) ? "overflow of 64 bits" : NULL;
    case SUB:
        return __builtin_sub_overflow(a, b, out) ? "overflow of 64 bits" : NULL;
    case MUL:
        return __builtin_mul_overflow(a, b, out) ? "overflow of 64 bits" : NULL;
    case DIV:
        return floor_div(a, b, out);
    case CEILDIV:
        return ceil_div(a, b, out);
    case MIN:
        *out = a < b ? a : b;
        return NULL;
    case MAX:
        *out = a > b ? a : b;
        return NULL;
    default:
        return "corrupt expression";
    }
}

static qg_status run(const qg_expr *e, const qg_call *call, const qg_device *dev, int64_t *out,
                     qg_error *err) {
    int64_t stack[MAX_DEPTH + 1];
    int top = 0;
    for (int i = 0; i < e->count; i++) {
        expr_step s = e->steps[i];
        const char *why = NULL;
        switch (s.code) {
        case PUSH:
            stack[top++] = s.value;
            break;
        case SCALAR:
            stack[top++] = call->scalar[s.value];
            break;
        case FACT:
            memcpy(&stack[top++], (const char *)dev + facts[s.value].offset, sizeof(int64_t));
            break;
        case NEG:
            why = __builtin_sub_overflow(0, stack[top - 1], &stack[top - 1]) ? "overflow of 64 bits" : NULL;
            break;
        default:
            top--;
            why = apply(s.code, stack[top - 1], stack[top], &stack[top - 1]);
        }
        if (why) return qg_fail(err, QG_BAD_INPUT, e->where, why, "a smaller batch or another plan");
    }
    *out = stack[0];
    return QG_OK;
}

static qg_status finish(parser *p, qg_expr **out) {
    size_t where_size = strlen(p->where) + 1, steps_size = (size_t)p->count * sizeof(expr_step);
    qg_expr *e = malloc(sizeof *e + steps_size + where_size);
    if (!e) return qg_fail(p->err, QG_NO_MEMORY, p->where, "out of memory", "");
    e->count = p->count;
    memcpy(e->steps, p->steps, steps_size);
    e->where = (char *)e->steps + steps_size;
    memcpy(e->where, p->where, where_size);
    e->constant = true;
    for (int i = 0; i < e->count; i++)
        e->constant = e->constant && e->steps[i].code != SCALAR && e->steps[i].code != FACT;
    qg_status s = e->constant ? run(e, NULL, NULL, &e->value, p->err) : QG_OK;
    if (s) {
        free(e);
        return s;
    }
    *out = e;
    return QG_OK;
}

qg_status qg_expr_compile(const json_t *value, qg_expr **out, const char *where, qg_error *err) {
    parser p = {.where = where, .err = err};
    char number[32];
    if (json_is_integer(value)) {
        if (json_integer_value(value) < 0)
            return qg_fail(err, QG_BAD_INPUT, where, "a negative number",
                           "an integer from 0 or an expression");
        p.text = number;
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    } else if (json_is_string(value)) {
        p.text = json_string_value(value);
    } else {
        return qg_fail(err, QG_BAD_INPUT, where, "neither an integer nor an expression in a string", ALLOWED);
    }
    p.at = p.text;
    qg_status s = parse_sum(&p);
    if (s) return s;
    skip_space(&p);
    if (*p.at) return refuse(&p, "unexpected character");
    return finish(&p, out);
}

qg_status qg_expr_eval(const qg_expr *e, const qg_call *call, const qg_device *dev, int64_t *out,
                       qg_error *err) {
    if (e->constant) {
        *out = e->value;
        return QG_OK;
    }
    return run(e, call, dev, out, err);
}

bool qg_expr_constant(const qg_expr *e, int64_t *out) {
    if (e->constant) *out = e->value;
    return e->constant;
}

void qg_expr_free(qg_expr *e) {
    free(e);
}
